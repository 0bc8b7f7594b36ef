"""How clients, jobs and futures look in notebooks: renderings as text and HTML, and displays that are kept up to date.

IPython is never imported: a program that runs in a notebook has imported it.
"""
