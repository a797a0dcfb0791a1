# `comm`, the communicator of all ranks: LibSK makes it, where that package can be found.

"""The communicator of all ranks; nothing without LibSK."""
make_communicator() = nothing
