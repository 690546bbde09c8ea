"""One device or service a file. Adapters translate and never decide; only the wiring knows them."""
