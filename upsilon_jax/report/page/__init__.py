"""One run as a page that people read, and the lists beside it."""
