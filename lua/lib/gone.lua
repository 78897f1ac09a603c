-- The only way out of a queue: removes messages for good, and all that was kept about them (I13). `gone` is how many. The
-- total, the outcome and the rows where they stood are the caller's. Statements, as in lib/chosen, since every ack runs them.
--   ids: of the messages; also of those of which a script that was cut off left something behind
--   once_gone: called with the ids as soon as the records are gone; nil: nothing is
--   per_key, gated: what the settings say of keys and closed lanes; where they do, seats and passes are given back
-- needs: keys: messages, states, history; locals: ids, once_gone, per_key, gated
-- gives: gone
local gone = #ids
redis.call('HDEL', messages, unpack(ids)) -- from here on they are gone
if once_gone then
  once_gone(ids)
end
redis.call('HDEL', history, unpack(ids))
redis.call('HDEL', states, unpack(ids)) -- the last: it tells a sweep that a script was cut off
if gated then
  -- needs: end_passes
  end_passes(ids)
end
if per_key then -- or all but the last: a seat of nothing is found by lib/tend
  -- needs: vacate
  vacate(ids)
end
