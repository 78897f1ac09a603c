-- The row in `groups` of a dead letter with this state, whose row in `dead` is `member`.
-- needs: group_row
-- gives: row_in_groups
local function row_in_groups(state, member)
  return group_row(state.more:match(' group=(%S*)') or '', state.due, member)
end
