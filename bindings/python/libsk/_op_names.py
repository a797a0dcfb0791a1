"""Names of ``libsk._ops``, which is loaded when one is used.

Written by tools/make_python_ops.py from the library's schemas.
"""

OPERATIONS = (
    "rmsnorm",
    "rmsnorm_backward",
    "add_rmsnorm",
    "adamw",
)
