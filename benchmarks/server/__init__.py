"""The server against its own ASGI stack: what Harmonia costs above the cheapest application that sends the same bytes.

    driver (client, core 1) ── sockets ──> ours:     uvicorn, our application, an engine that has its tokens already
                            └─ sockets ──> prepared: uvicorn, an application that sends the same events from memory

1. Both are real servers in processes of their own, with the same event loop, reader of HTTP and settings.
2. Nothing is timed before both gave what they should, and every timed stream is counted: events and bytes.
3. In each round both take their turn, and what is reported are the medians of the rounds.
"""
