-- Whether the queue is the one that the client opened, and not deleted since. An empty `opening`: the client cannot tell.
-- needs: keys: settings; args: opening
-- gives: is_open
local is_open = opening == '' or redis.call('HGET', settings, 'opening') == opening
