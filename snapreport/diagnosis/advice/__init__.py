"""What would lower the peak: changes to the program, each tried on the recording itself."""
