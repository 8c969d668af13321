"""Writes histories in the formats of other tools."""

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
"""The formats that can be written, and how their files' names end."""
