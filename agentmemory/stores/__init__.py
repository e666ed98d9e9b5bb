"""Where records live: one filter language, and one package per database.

`filters` is the metadata filter language that every store answers alike; `sqlite` is the default
store. A store may import what lies below it (models, text, config, protocols, …), never another
store.
"""
