"""What the native library does, once more: plain, slow, and in Python."""
