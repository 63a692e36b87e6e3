#!/usr/bin/perl
# mutate.pl MUTANTS TREE [check]: see README.md. With `check` only whether each can be applied.
use strict;
use warnings;

my ($table, $tree, $mode, @names) = @ARGV;
my $check = ($mode // '') eq 'check';
my $build = "$tree/.local/build-test";
# Virtual hosts of the broker for tests of the whole service.
my $spec = $ENV{RESOURCES} ? "--resource-spec-file $ENV{RESOURCES}" : '';

sub slurp {
  my ($path) = @_;
  open my $in, '<', $path or die "$path: $!\n";
  local $/;
  return scalar <$in>;
}

sub spit {
  my ($path, $text) = @_;
  open my $out, '>', $path or die "$path: $!\n";
  print $out $text;
  close $out or die "$path: $!\n";
}

my @mutants;
for my $block (split /\n\n+/, slurp($table) =~ s/^#.*\n//gmr) {
  my %one = (from => '', to => '', tests => []);
  for (split /\n/, $block) {
    /^= ([\w-]+): (.+)/ ? (@one{qw(name what)} = ($1, $2))
      : /^@ (\S+)/ ? ($one{file} = $1)
      : /^-(.*)/ ? ($one{from} .= "$1\n")
      : /^\+(.*)/ ? ($one{to} .= "$1\n")
      : /^! (\S+)/ ? push(@{$one{tests}}, $1)
      : /\S/ ? die "not understood: $_\n" : next;
  }
  next unless %one && $one{name};
  die "$one{name} is not complete\n" unless $one{file} && $one{from} && @{$one{tests}};
  push @mutants, \%one;
}

my ($bad, @rows) = (0);
for my $one (@mutants) {
  next if @names && !grep { $_ eq $one->{name} } @names;
  my $path = "$tree/$one->{file}";
  my $text = slurp($path);
  my $there = () = $text =~ /\Q$one->{from}\E/g;
  if ($there != 1) {
    print "$one->{name}: what it breaks is there $there times in $one->{file}\n";
    ++$bad;
    next;
  }
  next if $check;
  (my $broken = $text) =~ s/\Q$one->{from}\E/$one->{to}/;
  spit($path, $broken);
  my $by = '';
  if (system("ninja -C $build @{$one->{tests}} >$tree/.local/mutant.log 2>&1") != 0) {
    $by = 'does not build';
    ++$bad;
  } else {
    for my $test (@{$one->{tests}}) {
      # As many as one test program has may fail: the first is enough.
      my $out = `ctest --test-dir $build -R '^$test\\.' --stop-on-failure -j 2 --no-tests=error $spec 2>&1`;
      if ($? != 0) {
        ($by) = $out =~ /^\s+\d+ - (.+?) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|.*?)\)\s*$/m;
        $by //= 'something else: ' . substr($out, -300);
        last;
      }
    }
  }
  spit($path, $text);
  ++$bad if $by eq '';
  my $row = "| $one->{name} | $one->{what} | " . ($by eq '' ? '**survived**' : $by) . " |";
  print "$row\n";
  push @rows, $row;
}
exit($bad == 0 ? 0 : 1);
