-- Acks messages: they are done and go. Returns a verdict for each.
-- drains
-- items from ARGV[1]: id, token
-- needs: settle, remove_acked
local acked = {}
return settle(1, 2, function(id)
  acked[#acked + 1] = id
end, function()
  remove_acked(acked)
end)
