"""Measurements: `make bench`. Each figure stands beside a floor measured in the same run; ratios carry, absolutes do not."""
