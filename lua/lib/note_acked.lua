-- Notes in the outcome history what was acked, from the records and the states that it had, where they can be read.
-- needs: is_later, read_record, parse_state, outcome, holder
-- gives: note_acked
local function note_acked(ids, records, texts)
  for n, id in ipairs(ids) do
    if records[n] and not is_later(records[n], texts[n]) then -- else an ack was cut off
      local head = read_record(records[n])
      local state = parse_state(texts[n], head.birth)
      outcome('acked', id, head, state, 0, { consumer = holder(state.token) })
    end
  end
end
