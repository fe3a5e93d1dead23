"""cellshift, a multi-cell compute control plane that speaks the OpenStack Compute API.

The program itself is the command `cellshift`, which this wheel installs. `cellshift.pytest_plugin` gives tests a cloud.
"""
