"""What may be promised of messages, and what every broker keeps."""
