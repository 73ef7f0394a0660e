"""The parts of the command `counterpoint`.

Reading order of the chat: `command` (what is asked), `shown` (what is shown), then the two
ways in and out, `json_lines` and `typed_lines` with `printed`; `session` carries out and
follows; `chat` opens and leaves; `pipes` and `terminal` hold the file descriptors. Of the
commands on a store from outside: `reports` (what is told), `known_runs` (which run is meant),
`control`. `arguments` reads the command line of all.
"""
