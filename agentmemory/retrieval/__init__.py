"""From a query to ranked, explained results; may import stores, models, text and below."""
