"""The page for operators: `rq-dlq web`, and `rq_dlq.web.app(broker)` for your own program.

It is on top of the awaiting façade, and the core has nothing of it.

- *One reader.* `hub` calls `broker.overview` once a second while a page is open, otherwise every ten seconds,
  and waits four times as long as a look took, at most ten seconds more. Streams wait for its next look and
  take the part that was rendered for the first of them, so a hundred pages cost Redis as much as one.
- *HTML over the wire* (`live`). The stream brings the live part of a page, which htmx morphs into the page,
  so the focus stays; a chart (uPlot) gets its points from the same stream. Both are files in the package,
  without a build, and a page without JavaScript has the same text and forms.
- *Names and ids are arguments*, `/message?queue=…&id=…`, as they may have slashes and dots that browsers and
  proxies resolve in paths. A name of dead letters leads to its queue, and a shared one to the list of its
  queues. An action needs the queue's own name.
- *Forms are posted with a mark* (`access`), an HMAC of the session under a key from the token; beside it
  `Origin` and `Sec-Fetch-Site` have to be ours. Parts that come by the stream are the same for everybody, so
  their buttons belong to a form outside of them which has the mark.
- *Escaping is one place*: the templates' environment escapes everything and makes visible the characters that
  steer text; masks are called where bodies, headers and errors are shown.
- *An action asks once, on a page of its own*, without a script (`pages/acts.py`): its form has the choice,
  and the plan that was shown (`core/changing`). So messages that died in the meantime are not purged unseen.
- *An edit in a form is a difference.* The body is shown without its secrets, so what comes back is not the
  new body. The values of the letter stay where the text was left as it was shown, and a mark of something
  hidden elsewhere is refused.
- *No condition on hidden fields*: the number that an action shows would reveal the value, one guess after
  another.
"""

from rq_dlq.web.application import app

__all__ = ["app"]
