"""The bundled agent: research over a folder of a person's own files."""
