"""Measurements: `make bench`. A figure stands beside a floor of the same run: ratios carry, absolutes do not."""
