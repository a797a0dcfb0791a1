# The structs of this package against the library's layout, field by field.
include("common.jl")

const LAYOUT = joinpath(@__DIR__, "..", "..", "..", "tests", "abi", "layout.txt")

"""By struct: its size, and offset and size of each field."""
function read_layout()
    found = Dict{String,Tuple{Int,Vector{Tuple{String,Int,Int}}}}()
    name = ""
    for line in eachline(LAYOUT)
        if (m = match(r"^struct (\w+): size (\d+)", line)) !== nothing
            name = m[1]
            found[name] = (parse(Int, m[2]), [])
        elseif (m = match(r"^  (\w+): offset (\d+), size (\d+)", line)) !== nothing
            push!(found[name][2], (m[1], parse(Int, m[2]), parse(Int, m[3])))
        end
    end
    return found
end

snake(name) = lowercase(replace(name, r"(?<=[a-z])(?=[A-Z])" => "_"))

"""Sizes, offsets and names of fields as C has them."""
function agrees(type, c_name, layout; names = Dict())
    total, fields = layout[c_name]
    @test (c_name, sizeof(type)) == (c_name, total)
    own = map(enumerate(fieldnames(type))) do (i, f)
        name = rstrip(string(f), '_')
        (get(names, name, name), Int(fieldoffset(type, i)), sizeof(fieldtype(type, i)))
    end
    @test own == fields
end

@testset "structs" begin
    layout = read_layout()
    kinds = Dict("Tensor" => "sk_tensor", "RunOptions" => "sk_run_options", "CommInfo" => "sk_comm_info",
        "CommConfig" => "sk_comm_config", "TopoInfo" => "sk_topo_info",
        "SessionConfig" => "sk_session_config", "ExecOptions" => "sk_exec_options", "Mime" => "sk_mime",
        "Event" => "sk_event", "WireError" => "sk_rank_error", "WireTime" => "sk_rank_time",
        "LogQuery" => "sk_log_query", "SessionSettings" => "sk_session_settings")
    for name in names(LibSK; all = true)
        endswith(string(name), "Args") && (kinds[string(name)] = "sk_" * snake(string(name)))
    end
    @test length(kinds) > 12
    for (name, c_name) in kinds
        agrees(getfield(LibSK, Symbol(name)), c_name, layout)
    end
end

# A rank's program has its own, for it starts without this package.
module Rank
import Libdl
include(joinpath(@__DIR__, "..", "kernel", "src", "abi.jl"))
end

@testset "structs of a rank" begin
    layout = read_layout()
    names = Dict("stop" => "end")  # A word of Julia's own.
    for (type, c_name) in (
        Rank.WorkerConfig => "sk_worker_config", Rank.Mime => "sk_mime", Rank.RawRequest => "sk_request",
        Rank.RawReply => "sk_reply", Rank.RawInput => "sk_input", Rank.RawName => "sk_name",
        Rank.RawCommMessage => "sk_comm_message", Rank.RawGroup => "sk_group",
    )
        agrees(type, c_name, layout; names = names)
    end
end

@testset "another library is refused" begin
    program = "using LibSK"
    julia = Base.julia_cmd()
    wrong = setenv(`$julia --startup-file=no -e $program`, merge(ENV, Dict("SK_LIBRARY" => "/nowhere/libsk.so.0")))
    output = IOBuffer()
    @test !success(pipeline(wrong; stderr = output))
    @test occursin("/nowhere/libsk.so.0", String(take!(output)))
end
