"""The parts of the command `counterpoint`.

Reading order: `command` (what is asked), `shown` (what is shown), then the two ways in and
out, `json_lines` and `typed_lines` with `printed`; `session` carries out and follows;
`chat` opens and leaves; `pipes` and `terminal` hold the file descriptors; `arguments` reads
the command line.
"""
