"""Plain typed data that the other rooms pass along; opens no files and computes no figures."""
