# What needs a terminal, of which ranks have none, is refused with a sentence: menus, and editors that
# would run unseen on every rank until they are killed.

const TerminalMenus = REPL.TerminalMenus

# In place of Julia's own, which takes its keys from descriptor 0.
TerminalMenus.request(menu::TerminalMenus.AbstractMenu; options...) = throw(UsageError(
    "a menu needs a terminal, and a notebook is none: readline() asks for a line"))
TerminalMenus.request(words::AbstractString, menu::TerminalMenus.AbstractMenu; options...) =
    TerminalMenus.request(menu)

const TERMINAL_EDITORS = ("ed", "emacs", "helix", "hx", "jed", "joe", "kak", "mcedit", "micro", "nano", "ne",
                          "nvi", "nvim", "pico", "vi", "vim")

"""One of `InteractiveUtils.EDITOR_CALLBACKS`, before Julia's own; later ones, of the user's, precede it."""
function refuse_editor(command, path, line, column...)
    name = splitext(basename(first(command)))[1]  # Of "/usr/bin/vim.basic" vim.
    name in TERMINAL_EDITORS && !(name == "emacs" && haskey(ENV, "DISPLAY")) || return false
    throw(UsageError("$name needs a terminal, and a notebook is none: $path:$line is the place, which @less " *
        "prints; ENV[\"JULIA_EDITOR\"] may name an editor with a window of its own"))
end

function refuse_editors()
    callbacks = InteractiveUtils.EDITOR_CALLBACKS
    refuse_editor in callbacks && return  # In an image.
    # Julia's own are there once the list is empty when the first is wanted.
    isempty(callbacks) && InteractiveUtils.define_default_editors()
    pushfirst!(callbacks, refuse_editor)
    return
end
