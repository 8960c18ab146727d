"""What the library asks of the machine: files, folders, threads, processes, downloads, packages."""
