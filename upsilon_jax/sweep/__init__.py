"""Many runs of one config: the grid, and the processes that train it.

What a single run does is the business of `training`.
"""
