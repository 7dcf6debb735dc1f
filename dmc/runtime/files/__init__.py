"""The `.dmc` file, from bytes to a checked artifact.

* atomic: a file is replaced as a whole
* regular_file: no pipe, device or socket is opened
* zip_members: the members of a zip, stored one behind the other
* tensor_file: files of safetensors
* container: members with checksums
* versions: the tools that built a file
* manifest: what a file says of its step
* stored_state: the state of a step as members
* consistency: whether the parts of a signature fit each other
* artifact: a compiled step as a value
"""
