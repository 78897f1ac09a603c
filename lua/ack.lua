-- Acks messages: they are done and go. Returns a verdict for each.
-- drains
-- items from ARGV[1]: id, token
-- needs: settle, remove_acked
local acked, states_of = {}, {}
return settle(1, 2, function(id, text)
  acked[#acked + 1], states_of[#acked + 1] = id, text
end, function()
  remove_acked(acked, states_of)
end)
