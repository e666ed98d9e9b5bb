"""What the handles that users hold can do, by subject; imports nothing itself."""
