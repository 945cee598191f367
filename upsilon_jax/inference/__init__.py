"""From weights and images to outputs, and what is measured on them.

Nothing here changes a weight.
"""
