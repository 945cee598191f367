"""How the process uses the machine: devices, compilation, memory and signals.

Nothing here knows what is computed.
"""
