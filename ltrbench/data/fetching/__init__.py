"""Downloads published data sets for the command `data fetch`.

archive     the `fetch` node of a YAML: address, size, SHA-256, licence and layout of an archive
transfer    download by HTTP, which continues a partial file
unpacking   extraction of zip and tar.gz archives that are not trusted
fetch       finds or downloads an archive, checks it, and unpacks it
"""
