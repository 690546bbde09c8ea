"""The pure game: values in, values out. Nothing here waits, reads, writes or rolls dice."""
