"""Where several files are worked on: processes of this machine, or a Dask or Ray cluster."""
