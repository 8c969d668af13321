"""From a file to an open recording: bundles that are kept, and work that can be cancelled."""
