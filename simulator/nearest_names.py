"""``dlx.nearest_names`` for the rooms of the simulator."""

from dlx.nearest_names import suggestion as suggestion
