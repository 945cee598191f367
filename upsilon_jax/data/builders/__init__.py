"""tfds builders of data sets that tfds does not have."""
