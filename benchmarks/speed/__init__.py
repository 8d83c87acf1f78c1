"""How fast salcli is, as ratios within one run: `make bench`."""
