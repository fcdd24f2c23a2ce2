"""Who carries the rows: this process, or Spark. Both call the same kernel."""
