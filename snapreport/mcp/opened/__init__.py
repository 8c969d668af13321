"""What is open: files found below a folder, a recording, a run."""
