"""What serves HTTP: guards, batching, metrics, running, and the interface ``/v1`` for programs.

A page or an interface is built on four things, each in a module of its own.

``guards.Guarded(routes, guards)``
    The ASGI application: Starlette routes behind checks of Host, Origin, content type and token, limits on
    body, time and number of requests, and security headers. An endpoint says no by raising
    ``RequestError(status, sentence)``. An error of residuum becomes status 400 with its sentence, and
    anything else 422; nothing becomes a 5xx, and no traceback is sent. The endpoint of a client that has gone
    is cancelled.

``batching.Lane``
    The one thread of a process that computes. ``await lane.together(work, item, rows=n, key=k)`` joins the
    items of all requests that wait with the same `work` and `key` into one call ``work([item, ...])``, which
    returns a list of results; ``await lane.alone(function, *arguments)`` is a turn of its own. A long
    computation takes its turns one after the other, so that it does not hold up others. Work that is still
    waiting when its request is cancelled is never begun.

``metrics.Metrics``
    Counters of one worker that ``/metrics`` adds up over all workers.

``running.serve(build, settings)``
    Binds the socket, prints the address and runs ``build(worker)``, in this process or in several, until
    SIGTERM or Ctrl-C. `build` gets a `Worker` (address, token, limits, metrics) and returns a `Service`: the
    ASGI application, what to do on SIGHUP, and what to do at the end.

``service.ModelService`` builds the interface ``/v1`` from a model file in this way.
"""
