-- Notes what was acked in the outcome history, by the records and the states that there were. Statements, as in
-- lib/take: only a queue that keeps outcomes needs them.
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/outcome
-- @include lib/holder
for n, id in ipairs(ids) do
  if records[n] then -- else an ack was cut off
    local head = read_record(records[n])
    local state = parse_state(texts[n], head.birth)
    outcome('acked', id, head, state, 0, { consumer = holder(state.token) })
  end
end
