"""What can be typed: the page of `--help`, shell completion, and the settings as the YAMLs explain them."""
