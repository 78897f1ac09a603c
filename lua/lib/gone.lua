-- The only way out of a queue: removes messages permanently, with all that was kept about them (I13). `gone` is how many.
-- The caller counts them, and removes their rows. Statements, as in lib/chosen, since every ack runs them.
--   ids: the messages, and those of which a cut-off script left something behind
--   once_gone: called with the ids as soon as the records are gone; nil: not called
--   per_key, gated: the settings of keys and closed lanes; if they are set, seats and passes are given back
-- needs: keys: messages, states, history; locals: ids, once_gone, per_key, gated
-- gives: gone
local gone = #ids
redis.call('HDEL', messages, unpack(ids)) -- from here on they are gone
if once_gone then
  once_gone(ids)
end
redis.call('HDEL', history, unpack(ids))
redis.call('HDEL', states, unpack(ids)) -- last: by the state a sweep sees that a script was cut off
if gated then
  -- needs: end_passes
  end_passes(ids)
end
if per_key then -- after the states: lib/tend finds the seat of a message that is gone
  -- needs: vacate
  vacate(ids)
end
