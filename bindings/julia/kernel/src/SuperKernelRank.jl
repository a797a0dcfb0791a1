"""
One rank of a Julia notebook on SuperKernel: takes requests from the controller by libsk.so, runs
cells, and hands back text, displays and errors. `rank.jl` starts it; nothing here is for cells but
`@on` and the names that `own_names()` puts into Main.
"""
module SuperKernelRank

import Base64, FileWatching, InteractiveUtils, Libdl, Logging, Markdown, Random, REPL
using REPL.REPLCompletions

include("abi.jl")
include("worker.jl")
include("json.jl")
include("mime.jl")
include("streams.jl")
include("interrupts.jl")
include("errors.jl")
include("habits.jl")
include("parsing.jl")
include("help.jl")
include("prefixes.jl")
include("terminals.jl")
include("display.jl")
include("ranks.jl")
include("communicator.jl")
include("stdin.jl")
include("cells.jl")
include("completion.jl")
include("names.jl")
include("actions.jl")
include("comms.jl")
include("loop.jl")

end
