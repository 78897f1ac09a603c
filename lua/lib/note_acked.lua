-- Records acked messages in the outcome history, from their heads and their states before the ack, if these can be read.
-- needs: parse_state, outcome, holder
-- gives: note_acked
local function note_acked(ids, heads, texts)
  for n, id in ipairs(ids) do
    if heads[n] then -- otherwise an ack was cut off
      local state = parse_state(texts[n], heads[n].birth)
      outcome('acked', id, heads[n], state, 0, { consumer = holder(state.token) })
    end
  end
end
