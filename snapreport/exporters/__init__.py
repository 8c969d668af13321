"""Histories in the forms that other tools read: one module for each format."""

EXPORTS = {
    "speedscope": ".speedscope.json",
    "collapsed": ".collapsed.txt",
    "pprof": ".pb.gz",
    "perfetto": ".perfetto-trace",
    "csv": ".csv",
    "parquet": ".parquet",
    "json": ".json",
    "pickle": ".pickle",
    "snapviewer": ".snapviewer",
}
"""What can be written, and how the names of the files end."""
