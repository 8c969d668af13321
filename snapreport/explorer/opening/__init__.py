"""Opens files for the explorer: the cache of bundles, and conversion that can be cancelled."""
