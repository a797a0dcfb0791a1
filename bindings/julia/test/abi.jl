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

@testset "structs" begin
    layout = read_layout()
    kinds = Dict("Tensor" => "sk_tensor", "RunOptions" => "sk_run_options", "CommInfo" => "sk_comm_info",
        "CommConfig" => "sk_comm_config", "TopoInfo" => "sk_topo_info",
        "SessionConfig" => "sk_session_config", "ExecOptions" => "sk_exec_options", "Mime" => "sk_mime",
        "Event" => "sk_event")
    for name in names(LibSK; all = true)
        endswith(string(name), "Args") && (kinds[string(name)] = "sk_" * snake(string(name)))
    end
    @test length(kinds) > 12
    for (name, c_name) in kinds
        type = getfield(LibSK, Symbol(name))
        total, fields = layout[c_name]
        @test (c_name, sizeof(type)) == (c_name, total)
        own = [(rstrip(string(f), '_'), Int(fieldoffset(type, i)), sizeof(fieldtype(type, i)))
               for (i, f) in enumerate(fieldnames(type))]
        @test own == fields
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
