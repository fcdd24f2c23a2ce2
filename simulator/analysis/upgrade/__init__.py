"""What changes for a topology when its server is upgraded: a question for each row of the release table."""
